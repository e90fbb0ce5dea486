/*
 * Structured log: an event with typed pairs is one line (JSON lines or key=value). Event names such
 * as "job.replaced" are a stable interface. Redaction (base/crypto/crypto.h) keeps registered
 * secrets and the values of secret names out of the output.
 *
 * Only boundaries log: the end of an op, an API reply, a state transition. Library code returns
 * errors.
 *
 *   log_info("node.launched", I64("node", id), STR("pool", key), USD("price", micros));
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/macros.h"

enum log_level { LOG_DEBUG = 1, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_type { LOG_T_END = 0, LOG_T_STR, LOG_T_I64, LOG_T_F64, LOG_T_BOOL, LOG_T_USD, LOG_T_DUR };
struct log_pair {
	enum log_type type;
	const char *key;
	const char *s;
	int64_t i;
	double f;
};
#define STR(k, v) ((struct log_pair){ .type = LOG_T_STR, .key = (k), .s = (v) })
#define I64(k, v) ((struct log_pair){ .type = LOG_T_I64, .key = (k), .i = (int64_t)(v) })
#define F64(k, v) ((struct log_pair){ .type = LOG_T_F64, .key = (k), .f = (v) })
#define BOOL(k, v) ((struct log_pair){ .type = LOG_T_BOOL, .key = (k), .i = (v) })
#define USD(k, v) ((struct log_pair){ .type = LOG_T_USD, .key = (k), .i = (v) }) /* micros */
#define DUR(k, v) ((struct log_pair){ .type = LOG_T_DUR, .key = (k), .i = (v) }) /* us */
#define log_debug(event, ...) \
	log_event(LOG_DEBUG, event, (const struct log_pair[]){ __VA_ARGS__ __VA_OPT__(, ){ 0 } })
#define log_info(event, ...) \
	log_event(LOG_INFO, event, (const struct log_pair[]){ __VA_ARGS__ __VA_OPT__(, ){ 0 } })
#define log_warn(event, ...) \
	log_event(LOG_WARN, event, (const struct log_pair[]){ __VA_ARGS__ __VA_OPT__(, ){ 0 } })
#define log_error(event, ...) \
	log_event(LOG_ERROR, event, (const struct log_pair[]){ __VA_ARGS__ __VA_OPT__(, ){ 0 } })

struct clock;
struct log_conf {
	int fd; /* the output */
	enum log_level level;
	bool json; /* JSON lines instead of key=value */
	const char *program; /* "spotd" */
	const struct clock *clock;
};
void log_init(const struct log_conf *conf); /* default: stderr, info, key=value, real clock */
void log_event(enum log_level level, const char *event, const struct log_pair *pairs);

#endif
