/* sd_notify(3) without its library: one datagram to the socket that systemd names. */
#include "base/base.h"
#include "spotd/daemon.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_systemd(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t n = path == NULL ? 0 : strlen(path);
	int fd;

	if (n == 0 || n >= sizeof(to.sun_path) || (path[0] != '/' && path[0] != '@')) {
		return;
	}
	memcpy(to.sun_path, path, n);
	if (path[0] == '@') {
		to.sun_path[0] = '\0'; /* abstract */
	}
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		(void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&to,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
		close(fd);
	}
}
