-- When the past of a pool's spot price was asked for, where a provider's past is asked for apart; NULL = it was not. The current prices do not wait for it, and a
-- daemon that ends in the middle goes on with the pools that are left.
ALTER TABLE pool ADD COLUMN past_us int8;
