"""NOT PRIVATE: mechanisms of one purpose each, broken where their proof rests."""
