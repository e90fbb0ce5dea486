#include "base/base.h"
#include "store/store.h"

#include "base/text/text.h"
#include "io/pg/pg.h"

static void json_put_document(struct sbuf *b, struct str s, bool binary, int64_t now_us)
{
	if (binary) { /* jsonb_send: version 1, then the text */
		assert(s.n > 0 && s.p[0] == 1);
		s = (struct str){ s.p + 1, s.n - 1 };
	}
	json_marks_put(b, s.p, s.n, now_us);
}

static void id_put(struct sbuf *b, char letter, int64_t id)
{
	char head[2] = { '"', letter };

	sbuf_add(b, head, 2);
	json_put_i64(b, id);
	sbuf_putc(b, '"');
}

static void second_put(struct sbuf *b, const struct shape_step *s)
{
	sbuf_putc(b, ',');
	sbuf_add(b, s->second.p, s->second.n);
}

static void age_put(struct sbuf *b, const struct shape_step *s, int64_t us, int64_t now_us)
{
	json_put_time(b, us);
	second_put(b, s);
	json_put_i64(b, MAX((now_us - us) / SPOT_US_PER_S, 0));
}

static void money_put(struct sbuf *b, const struct shape_step *s, int64_t micros)
{
	json_put_i64(b, micros);
	second_put(b, s);
	json_put_usd(b, micros);
}

static void null_put(struct sbuf *b, const struct shape_step *s)
{
	json_put_null(b);
	if (s->second.n > 0) {
		second_put(b, s);
		json_put_null(b);
	}
}

static void value_put(struct sbuf *b, const struct shape_step *s, const struct pg_result *r,
    size_t row, int64_t now_us)
{
	struct str text = pg_bytes(r, row, s->col);

	switch (s->kind) {
	case SHAPE_I64:
		json_put_i64(b, pg_int(r, row, s->col));
		break;
	case SHAPE_F64:
		json_put_f64(b, pg_float(r, row, s->col));
		break;
	case SHAPE_BOOL:
		json_put_bool(b, pg_bool(r, row, s->col));
		break;
	case SHAPE_TEXT:
		json_put_str(b, text.p, text.n);
		break;
	case SHAPE_JSONB:
	case SHAPE_JSON:
		json_put_document(b, text, s->kind == SHAPE_JSONB, now_us);
		break;
	case SHAPE_ID:
		id_put(b, s->letter, pg_int(r, row, s->col));
		break;
	case SHAPE_MILLI:
		json_put_fixed(b, pg_int(r, row, s->col), 3, false);
		break;
	case SHAPE_TIME:
		json_put_time(b, pg_int(r, row, s->col));
		break;
	case SHAPE_AGE:
		age_put(b, s, pg_int(r, row, s->col), now_us);
		break;
	case SHAPE_MONEY:
		money_put(b, s, pg_int(r, row, s->col));
		break;
	case SHAPE_OPEN:
	case SHAPE_CLOSE:
		break;
	}
}

void shape_put(struct sbuf *b, const struct shape *s, const struct pg_result *r, size_t row,
    int64_t now_us)
{
	bool first = true;

	for (size_t i = 0; i < s->n; i++) {
		const struct shape_step *step = &s->steps[i];
		bool null;

		if (step->kind == SHAPE_CLOSE) {
			sbuf_putc(b, '}');
			continue;
		}
		if (!first) {
			sbuf_putc(b, ',');
		}
		sbuf_add(b, step->key.p, step->key.n);
		null = pg_null(r, row, step->col);
		first = step->kind == SHAPE_OPEN && !null;
		if (first) {
			sbuf_putc(b, '{');
		} else if (null) {
			null_put(b, step);
			i += (size_t)step->skip;
		} else {
			value_put(b, step, r, row, now_us);
		}
	}
}
