"""PostgreSQL's wire protocol (version 3), read-only: releases as tables, for tools that speak to databases."""
