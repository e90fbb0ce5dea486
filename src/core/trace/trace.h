/*
 * Recorded supply of a spot pool over time. A file is {"metadata": {"gap_seconds": g, ...}, "data":
 * [v0, v1, ...]}. Sample i holds for [i*g, (i+1)*g) seconds from the file's start. A value is 0 or
 * 1 (available or not), a count (how many of n nodes were available), or a price in USD per hour.
 * The format is that of the data published with "Can't Be Late" (NSDI'24) and SkyServe
 * (EuroSys'25).
 *
 * Pure: text in, struct in the arena out. Strict: a refusal names file and sample.
 */
#ifndef CORE_TRACE_H
#define CORE_TRACE_H

#include "base/base.h"

struct arena;
#define TRACE_SAMPLES_MAX 1000000
#define TRACE_GAP_S_MAX 86400
#define TRACE_COUNT_MAX 100000
#define TRACE_PRICE_MICROS_MAX 1000000000 /* 1000 USD per hour */

struct trace {
	const char *name; /* file name without its folder */
	/* "us-east-1a", "us-east-1"; both the whole name if it names neither */
	const char *zone, *region;
	int64_t gap_us;
	size_t n;
	const int32_t *counts; /* NULL in a price trace */
	const int64_t *price_micros; /* NULL in an availability trace; per hour */
};

/* Parses a trace into ret, in the arena. path is the source of the text; its last part names zone
 * and region, <zone>_<gpu>_<gpus>.json. */
NODISCARD enum spot_rc trace_parse_supply(struct arena *a, struct str text, const char *path,
    struct trace *ret, struct spot_err *err);
NODISCARD enum spot_rc trace_parse_prices(struct arena *a, struct str text, const char *path,
    struct trace *ret, struct spot_err *err);
/* Returns n samples, in the arena: 1 if at least this many nodes were available. */
const uint8_t *trace_up(struct arena *a, const struct trace *t, int64_t nodes);

#endif
