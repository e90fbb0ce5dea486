-- Where a pool's price comes from: sums over its past that fade with a time constant of 7 days, kept up by every poll
-- (store/sql/price.sql). Of a price p that held from s to e the weight at fade_us is exp(-(fade_us - e) / 7 d) -
-- exp(-(fade_us - s) / 7 d): fade_w sums the weights (1 = the whole past was seen), fade_1 weight times USD an hour,
-- fade_2 weight times its square. Mean and variance of the past follow.
ALTER TABLE pool_latest ADD COLUMN fade_us int8, ADD COLUMN fade_w float8, ADD COLUMN fade_1 float8,
	ADD COLUMN fade_2 float8;
