"""The net mechanism of Blum, Ligett and Roth: a small table that answers a class of counts."""
