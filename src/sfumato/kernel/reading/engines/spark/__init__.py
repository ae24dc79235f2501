"""Apache Spark, 3.5 or later: in this process, on a cluster, or behind Spark Connect."""
