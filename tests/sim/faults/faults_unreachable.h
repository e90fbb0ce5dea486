/* Daemons that cannot reach a cloud for minutes. */
#ifndef SIM_FAULTS_UNREACHABLE_H
#define SIM_FAULTS_UNREACHABLE_H

enum unreachable_cut {
	UNREACHABLE_NOT,
	UNREACHABLE_LOST, /* nothing comes back: the sender's deadline ends it */
	UNREACHABLE_REFUSED, /* the connection breaks before the request arrived */
};
enum unreachable_cut unreachable_cut(const char *from, const char *url, int port);
void unreachable_minute(void);
void unreachable_calm(void);

#endif
