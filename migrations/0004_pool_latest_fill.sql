-- Every poll confirms every row of pool_latest. Room in the page keeps such an update off the index.
ALTER TABLE pool_latest SET (fillfactor = 45);
