"""NOT PRIVATE: broken variants of the mechanisms with one purpose each, a file a mechanism."""
