"""NOT PRIVATE: broken variants of mechanisms with a purpose of their own, a file each."""
