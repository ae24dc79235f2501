"""NOT PRIVATE: broken variants of mechanisms for one purpose each."""
