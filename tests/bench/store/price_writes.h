/* Polls of prices, stored beside a bare COPY of as many rows. */
#ifndef PRICE_WRITES_H
#define PRICE_WRITES_H

#include "base/base.h"
#include "store/store.h"

struct price_writes {
	struct loop *loop;
	struct pg *pg;
	const char *dsn;
	int server; /* the process id of its postmaster */
	int64_t pools; /* ids 1 to this, with the prices of price_writes_price */
	int64_t now_us; /* later than all prices that are stored */
	bool json; /* prints an object as the last line */
};
/* The price that pool id has before the first poll. */
int64_t price_writes_price(int64_t id);
/* Prints a line per figure. Exits when a statement fails, or stores another number of prices. */
void price_writes_bench(const struct price_writes *w);

#endif
