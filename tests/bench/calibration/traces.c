#include "base/base.h"

#include "traces.h"

#include "base/text/text.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

/* Zone names of AWS end in a digit and a letter, those of Google Cloud in a dash and a letter. */
static void zone_set(struct arena *a, struct trace_pool *p, const char *zone)
{
	size_t n = strlen(zone);

	p->zone = zone;
	p->provider = n > 2 && zone[n - 2] == '-' ? "gcp" : "aws";
	p->region = arena_strndup(a, zone, n - (strcmp(p->provider, "gcp") == 0 ? 2 : 1));
}

static bool pool_load(struct arena *a, const char *path, const char *name, struct trace_pool *p)
{
	AUTO(json) json_t *doc = json_load_file(path, 0, NULL);
	const json_t *meta = json_object_get(doc, "metadata"), *data = json_object_get(doc, "data");
	const char *under = strchr(name, '_'),
		   *start = json_string_value(json_object_get(meta, "start_time"));
	const char *last = strrchr(name, '_');

	if (under == NULL || !json_is_array(data)) {
		fprintf(stderr, "%s: not a trace\n", path);
		return false;
	}
	p->file = arena_strdup(a, name);
	zone_set(a, p, arena_strndup(a, name, (size_t)(under - name)));
	p->gpu = arena_strndup(a, under + 1, strcspn(under + 1, last > under ? "_" : "."));
	p->size = last > under ? (int32_t)strtol(last + 1, NULL, 10) : 1;
	p->gap_s = json_integer_value(json_object_get(meta, "gap_seconds"));
	if (start != NULL && strlen(start) > 24) {
		p->start_s = strtol(start + 11, NULL, 10) * 3600 +
		    strtol(start + 14, NULL, 10) * 60 -
		    strtol(start + strlen(start) - 6, NULL, 10) * 3600;
	}
	p->n = json_array_size(data);
	p->alive = arena_array(a, p->n, sizeof(*p->alive));
	for (size_t i = 0; i < p->n; i++) {
		p->alive[i] = (int32_t)lround(json_number_value(json_array_get(data, i)));
	}
	return p->gap_s > 0;
}

static int by_name(const void *pa, const void *pb)
{
	const char *const *a = pa, *const *b = pb;

	return strcmp(*a, *b);
}

static size_t names_in(struct arena *a, const char *dir, const char **names, size_t most)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL && n < most;
	     e = readdir(d)) {
		if (e->d_name[0] != '.') {
			names[n++] = arena_strdup(a, e->d_name);
		}
	}
	if (d != NULL) {
		closedir(d);
	}
	qsort(names, n, sizeof(*names), by_name);
	return n;
}

static bool dir_load(struct arena *a, const char *dir, const char *label, struct trace_set *sets,
    size_t most, size_t *n)
{
	const char *names[256];
	size_t names_n = names_in(a, dir, names, ARRAY_LEN(names));
	struct trace_set *s = &sets[*n];
	struct stat st;

	*s = (struct trace_set){ .name = label };
	for (size_t i = 0; i < names_n && *n < most; i++) {
		const char *path = arena_printf(a, "%s/%s", dir, names[i]);

		if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
			if (!dir_load(a, path,
				arena_printf(a, "%s%s%s", label, label[0] ? "/" : "", names[i]),
				sets, most, n)) {
				return false;
			}
			s = &sets[*n];
			*s = (struct trace_set){ .name = label };
		} else if (str_suffix(names[i], ".json") && s->pools_n < ARRAY_LEN(s->pools)) {
			struct trace_pool *p = &s->pools[s->pools_n++];

			if (!pool_load(a, path, names[i], p)) {
				return false;
			}
			s->hours = fmax(s->hours, (double)p->n * (double)p->gap_s / 3600);
		}
	}
	*n += s->pools_n > 0 && *n < most;
	return true;
}

static size_t slot_at(const struct trace_pool *p, double hour)
{
	double i = ceil(hour * 3600 / (double)p->gap_s - 1e-9);

	return i <= 0 ? 0 : (size_t)fmin(i, (double)p->n);
}

void trace_count(const struct trace_pool *p, double from_h, double to_h, double *ret_hours,
    double *ret_reclaims)
{
	*ret_hours = *ret_reclaims = 0;
	for (size_t i = MAX(slot_at(p, from_h), 1); i < slot_at(p, to_h); i++) {
		*ret_hours += p->alive[i - 1] * (double)p->gap_s / 3600;
		*ret_reclaims += MAX(p->alive[i - 1] - p->alive[i], 0);
	}
}

/* Of the hours in which it had nodes, the share in which it lost some. */
static double struck_per_hour(const struct trace_pool *p)
{
	double active = 0, struck = 0;

	for (double at = 0; at * 3600 < (double)p->n * (double)p->gap_s; at++) {
		double hours, reclaims;

		trace_count(p, at, at + 1, &hours, &reclaims);
		active += hours > 0;
		struck += reclaims > 0;
	}
	return struck / fmax(active, 1);
}

size_t traces_load(struct arena *a, char **paths, int paths_n, struct trace_set *sets, size_t most)
{
	size_t n = 0;

	for (int i = 0; i < paths_n; i++) {
		const char *base = strrchr(paths[i], '/');

		if (!dir_load(a, paths[i], base != NULL ? base + 1 : paths[i], sets, most, &n)) {
			return 0;
		}
	}
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < sets[i].pools_n; k++) {
			sets[i].pools[k].struck_per_hour = struck_per_hour(&sets[i].pools[k]);
		}
	}
	return n;
}

static bool lost_within(const struct trace_pool *p, double from_h, double to_h)
{
	double hours, reclaims;

	trace_count(p, from_h, to_h, &hours, &reclaims);
	return reclaims > 0;
}

static int places_shared(const struct trace_pool *p, const struct trace_pool *q)
{
	if (strcmp(p->provider, q->provider) != 0) {
		return -1;
	}
	if (strcmp(p->region, q->region) != 0) {
		return 0;
	}
	return strcmp(p->zone, q->zone) != 0 ? 1 : strcmp(p->gpu, q->gpu) != 0 ? 2 : 3;
}

/* Adds the other pools' record around a reclaim at hour. */
static void joint_add(const struct trace_set *s, size_t pool, double hour, double cut_h, double w,
    struct offer_record *r)
{
	for (size_t i = 0; i < s->pools_n; i++) {
		const struct trace_pool *q = &s->pools[i];
		int level = i == pool ? -1 : places_shared(&s->pools[pool], q);
		double hours, reclaims, from = floor(hour) - 1;

		trace_count(q, from, from + 1, &hours, &reclaims);
		if (level >= 0 && hours > 0) {
			r->joint_chances[level] += w;
			r->joint_hits[level] += w * lost_within(q, from, fmin(from + 3, cut_h));
			r->joint_alone[level] += w * -expm1(-3 * q->struck_per_hour);
		}
	}
}

/* The hours that were counted last. */
struct last {
	int64_t lost, asked;
};

static void slot_add(const struct trace_set *s, size_t pool, size_t i, double cut_h, double w,
    struct offer_record *r, struct last *last)
{
	const struct trace_pool *p = &s->pools[pool];
	double hour = (double)i * (double)p->gap_s / 3600,
	       held = p->alive[i - 1] * (double)p->gap_s / 3600;
	double at = (hour + (double)p->start_s / 3600) / 24 * 2 * M_PI;
	int32_t lost = p->alive[i - 1] - p->alive[i];

	r->node_hours += w * held;
	r->hour_nodes += w * held;
	r->node_cos += w * held * cos(at);
	r->node_sin += w * held * sin(at);
	r->node_cos2 += w * held * cos(2 * at);
	r->node_sin2 += w * held * sin(2 * at);
	if (lost <= 0) {
		return;
	}
	r->reclaims += w * lost;
	if (last->lost != (int64_t)hour) {
		last->lost = (int64_t)hour;
		r->reclaim_hours += w;
		r->hour_reclaims += w;
		r->reclaim_cos += w * cos(at);
		r->reclaim_sin += w * sin(at);
		joint_add(s, pool, hour, cut_h, w, r);
	}
}

void trace_record(const struct trace_set *s, size_t pool, double cut_h,
    const struct rank_policy *policy, struct offer_record *ret)
{
	const struct trace_pool *p = &s->pools[pool];
	struct last last = { -1, -1 };

	*ret = (struct offer_record){ 0 };
	for (size_t i = 1; i < slot_at(p, cut_h); i++) {
		double age = cut_h - (double)i * (double)p->gap_s / 3600;
		int64_t hour = (int64_t)((double)i * (double)p->gap_s / 3600);

		slot_add(s, pool, i, cut_h, exp2(-age / policy->age_half_life_h), ret, &last);
		double recent = exp2(-age / policy->recent_half_life_h);

		ret->recent_hours += recent * p->alive[i - 1] * (double)p->gap_s / 3600;
		ret->recent_reclaims += recent * MAX(p->alive[i - 1] - p->alive[i], 0);
		if (hour != last.asked) {
			double w = exp2(-age / policy->odds_half_life_h);

			last.asked = hour;
			ret->launches += p->alive[i] > 0 ? w : 0;
			ret->refusals += p->alive[i] > 0 ? 0 : w;
		}
	}
}
