/* Small things that every part uses. */
#include "base/base.h"
#include "cloudsim/sim/sim.h"
#include "base/text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int64_t sim_wall(const struct sim *s)
{
	return loop_wall_us(s->loop);
}

int64_t sim_feed_us(const struct sim *s, enum cloud cloud)
{
	return s->frozen_us[cloud] != 0 ? s->frozen_us[cloud] : sim_wall(s);
}

int64_t sim_clock(const struct sim *s)
{
	double passed = (double)(sim_wall(s) - s->start_us) * s->conf.scale;

	return s->start_us + (int64_t)passed + s->advanced_us;
}

char *dup_text(const char *s)
{
	char *d;

	if (!s) {
		return NULL;
	}
	d = strdup(s);
	if (!d) {
		abort();
	}
	return d;
}

char *sim_id(struct sim *s, struct arena *a, const char *prefix, size_t n)
{
	char hex[65], text[128];

	assert(n <= 32 && strlen(prefix) < 60);
	rng_hex(&s->rng, hex, n);
	snprintf(text, sizeof(text), "%s%s", prefix, hex);
	return a ? arena_strdup(a, text) : dup_text(text);
}

bool glob_match(const char *p, const char *t)
{
	for (; *p; p++) {
		if (*p == '*') {
			while (p[1] == '*') {
				p++;
			}
			if (!p[1]) {
				return true;
			}
			for (; *t; t++) {
				if (glob_match(p + 1, t)) {
					return true;
				}
			}
			return glob_match(p + 1, t);
		}
		if (*p == '\\' && p[1]) {
			p++;
		} else if (*p == '?' && *t) {
			t++;
			continue;
		}
		if (*p != *t) {
			return false;
		}
		t++;
	}
	return *t == '\0';
}

static bool write_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR) {
			continue;
		}
		if (w <= 0) {
			return false;
		}
		p += w;
		n -= (size_t)w;
	}
	return true;
}

bool file_put(const char *path, const void *p, size_t n, int mode)
{
	char tmp[4096];
	int fd;
	bool ok;

	snprintf(tmp, sizeof(tmp), "%s.tmp", path);
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	if (fd < 0) {
		return false;
	}
	ok = write_all(fd, p, n);
	if (close(fd) != 0) {
		ok = false;
	}
	if (ok && rename(tmp, path) == 0) {
		return true;
	}
	unlink(tmp);
	return false;
}

bool file_get(struct arena *a, const char *path, struct str *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *p;
	size_t at = 0;

	if (fd < 0) {
		return false;
	}
	if (fstat(fd, &st) != 0 || st.st_size < 0) {
		close(fd);
		return false;
	}
	p = arena_alloc(a, (size_t)st.st_size + 1);
	while (at < (size_t)st.st_size) {
		ssize_t r = read(fd, p + at, (size_t)st.st_size - at);

		if (r < 0 && errno == EINTR) {
			continue;
		}
		if (r <= 0) {
			break;
		}
		at += (size_t)r;
	}
	close(fd);
	if (at != (size_t)st.st_size) {
		return false;
	}
	*ret = (struct str){ p, at };
	return true;
}

void dir_make(const char *path, int mode)
{
	char tmp[4096];

	snprintf(tmp, sizeof(tmp), "%s", path);
	for (char *p = tmp + 1; *p; p++) {
		if (*p == '/') {
			*p = '\0';
			mkdir(tmp, 0755);
			*p = '/';
		}
	}
	mkdir(tmp, (mode_t)mode);
}

void sim_http_date(int64_t us, char ret[64])
{
	static const char *const week[] = { "Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed" };
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	char t[TIME_TEXT_MAX];
	int64_t month = 1;

	format_time_s(us, t);
	if (!parse_i64((char[]){ t[5] == '0' ? t[6] : t[5], t[5] == '0' ? '\0' : t[6], '\0' }, 1,
		12, &month)) {
		month = 1;
	}
	snprintf(ret, 64, "%s, %.2s %.3s %.4s %.8s GMT", week[us / SPOT_US_PER_S / 86400 % 7],
	    t + 8, months + 3 * (month - 1), t, t + 11);
}
