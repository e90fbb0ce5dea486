/* Daemons that cannot reach a cloud for minutes. */
#ifndef SIM_FAR_H
#define SIM_FAR_H

enum far_cut {
	FAR_REACHED,
	FAR_LOST, /* nothing comes back: the sender's deadline ends it */
	FAR_REFUSED, /* the connection breaks before the request arrived */
};
enum far_cut far_cut(const char *from, const char *url, int port);
void far_minute(void);
void far_calm(void);

#endif
