#include "base/base.h"
#include "io/pg/pg_priv.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADDRS_PER_HOST 4
#define LIST_MAX 4096

/* The loop and the thread share it; the last of them frees it. */
struct pg_resolve {
	int refs; /* atomic */
	int pipe[2];
	struct loop_fd fd;
	void (*done)(void *arg, const struct pg_resolve_result *res);
	void *arg;
	char *in_hosts, *in_ports;
	/* The thread writes these before `over`, and that before it writes to the pipe. */
	bool over; /* atomic */
	char hosts[LIST_MAX], addrs[LIST_MAX], ports[LIST_MAX], why[256];
};

static void resolve_put(struct pg_resolve *r)
{
	if (__atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL) > 0) {
		return;
	}
	close(r->pipe[0]);
	close(r->pipe[1]);
	free(r->in_hosts);
	free(r->in_ports);
	free(r);
}

static bool host_is_name(const char *s, size_t n)
{
	unsigned char buf[16];
	char host[64];

	if (n == 0 || s[0] == '/' || s[0] == '@') {
		return false; /* a socket: the default one, a path, an abstract name */
	}
	if (n >= sizeof(host)) {
		return true;
	}
	memcpy(host, s, n);
	host[n] = '\0';
	return inet_pton(AF_INET, host, buf) != 1 && inet_pton(AF_INET6, host, buf) != 1;
}

bool pg_resolve_needed(const char *hosts)
{
	for (const char *s = hosts;; s++) {
		size_t n = strcspn(s, ",");

		if (host_is_name(s, n)) {
			return true;
		}
		s += n;
		if (*s == '\0') {
			return false;
		}
	}
}

static void list_add(char list[LIST_MAX], const char *item, bool first)
{
	size_t n = strlen(list);

	/* It fits: resolve_entry has checked the sizes, so the lists keep equal length. */
	(void)snprintf(list + n, LIST_MAX - n, "%s%s", first ? "" : ",", item);
}

static void resolve_entry(struct pg_resolve *r, int *n, const char *host, const char *addr,
    const char *port)
{
	if (strlen(r->hosts) + strlen(host) + 2 > LIST_MAX ||
	    strlen(r->addrs) + strlen(addr) + 2 > LIST_MAX ||
	    strlen(r->ports) + strlen(port) + 2 > LIST_MAX) {
		return;
	}
	list_add(r->hosts, host, *n == 0);
	list_add(r->addrs, addr, *n == 0);
	list_add(r->ports, port, *n == 0);
	(*n)++;
}

static void resolve_host(struct pg_resolve *r, int *n, const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
	struct addrinfo *list = NULL;
	char addr[NI_MAXHOST];
	int rc, k = 0;

	if (!host_is_name(host, strlen(host))) {
		bool socket_path = host[0] == '\0' || host[0] == '/' || host[0] == '@';

		resolve_entry(r, n, host, socket_path ? "" : host, port);
		return;
	}
	rc = getaddrinfo(host, NULL, &hints, &list);
	if (rc != 0) {
		(void)snprintf(r->why, sizeof(r->why),
		    "cannot resolve the database host '%.100s': %s", host, gai_strerror(rc));
		return;
	}
	for (struct addrinfo *ai = list; ai != NULL && k < ADDRS_PER_HOST; ai = ai->ai_next) {
		if (getnameinfo(ai->ai_addr, ai->ai_addrlen, addr, sizeof(addr), NULL, 0,
			NI_NUMERICHOST) == 0) {
			resolve_entry(r, n, host, addr, port);
			k++;
		}
	}
	freeaddrinfo(list);
}

/* Copies item k of a comma list; a list of one item has that one for every k. */
static void list_item(const char *list, int k, char *ret, size_t size)
{
	bool single = strchr(list, ',') == NULL;
	size_t n;

	for (int i = 0; i < k && !single; i++) {
		list += strcspn(list, ",");
		if (*list != '\0') {
			list++;
		}
	}
	n = MIN(strcspn(list, ","), size - 1);
	memcpy(ret, list, n);
	ret[n] = '\0';
}

static void *resolve_thread(void *arg)
{
	struct pg_resolve *r = arg;
	char host[256], port[16];
	const char *s = r->in_hosts;
	int n = 0;

	for (int k = 0;; k++) {
		size_t len = strcspn(s, ",");

		(void)snprintf(host, sizeof(host), "%.*s", (int)len, s);
		list_item(r->in_ports, k, port, sizeof(port));
		resolve_host(r, &n, host, port);
		s += len;
		if (*s == '\0') {
			break;
		}
		s++;
	}
	if (n > 0) {
		r->why[0] = '\0';
	} else if (r->why[0] == '\0') {
		(void)snprintf(r->why, sizeof(r->why), "the database host has no address");
	}
	__atomic_store_n(&r->over, true, __ATOMIC_RELEASE);
	/* The pipe cannot be full: this is its only byte. */
	if (write(r->pipe[1], "x", 1) != 1) {
		abort();
	}
	resolve_put(r);
	return NULL;
}

static void resolve_ready(struct loop_fd *f, int events)
{
	struct pg_resolve *r = container_of(f, struct pg_resolve, fd);
	struct pg_resolve_result res = { r->hosts, r->addrs, r->ports,
		r->why[0] != '\0' ? r->why : NULL };
	char byte;

	(void)events;
	if (read(r->pipe[0], &byte, 1) != 1 || !__atomic_load_n(&r->over, __ATOMIC_ACQUIRE)) {
		return;
	}
	loop_fd_stop(&r->fd);
	r->done(r->arg, &res);
	resolve_put(r);
}

struct pg_resolve *pg_resolve_start(struct loop *l, const char *hosts, const char *ports,
    void (*done)(void *arg, const struct pg_resolve_result *res), void *arg)
{
	struct pg_resolve *r = calloc(1, sizeof(*r));
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	assert(r != NULL);
	r->refs = 2;
	r->done = done;
	r->arg = arg;
	r->in_hosts = strdup(hosts);
	r->in_ports = strdup(ports == NULL ? "" : ports);
	assert(r->in_hosts != NULL && r->in_ports != NULL);
	if (pipe2(r->pipe, O_CLOEXEC) != 0) {
		free(r->in_hosts);
		free(r->in_ports);
		free(r);
		return NULL;
	}
	loop_fd_init(&r->fd, l, resolve_ready);
	/* Block all signals in the thread, so that the loop gets them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attr, resolve_thread, r);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0) {
		r->refs = 1;
		resolve_put(r);
		return NULL;
	}
	loop_fd_set(&r->fd, r->pipe[0], LOOP_READ);
	return r;
}

void pg_resolve_cancel(struct pg_resolve *r)
{
	if (r == NULL) {
		return;
	}
	loop_fd_stop(&r->fd);
	resolve_put(r);
}
