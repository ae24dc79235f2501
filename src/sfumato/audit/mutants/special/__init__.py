"""NOT PRIVATE: broken variants of mechanisms for one purpose, a file each."""
