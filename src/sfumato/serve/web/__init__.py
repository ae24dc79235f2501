"""The explorer: releases served to a browser, and to programs by a JSON API. It holds no private data and no login."""
