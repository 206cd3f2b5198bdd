"""`cxlab serve`: the lab's page on this machine, with the native engine behind it."""
