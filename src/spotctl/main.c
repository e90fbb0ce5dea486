/* spotctl: the command line of the broker. */
#include "base/base.h"
#include "spotctl/ctl.h"

#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static void interrupted(int signo)
{
	(void)signo;
	_exit(CTL_INTERRUPTED); /* nothing of ours needs undoing: the daemon holds all state */
}

static int unknown_word(const char *word)
{
	const char *near = tree_suggest(word);

	if (near != NULL) {
		say("spotctl: no command '%s'; did you mean '%s'?", word, near);
	} else {
		say("spotctl: no command '%s'; 'spotctl help' lists them", word);
	}
	return CTL_USAGE;
}

static int find_command(struct ctl *c, int *argc, char ***argv)
{
	const char *noun = *argc > 1 ? (*argv)[1] : "help";
	const char *verb = *argc > 2 && (*argv)[2][0] != '-' ? (*argv)[2] : "";
	bool known = false;
	int used = 2;

	if (strcmp(noun, "--help") == 0 || strcmp(noun, "-h") == 0) {
		noun = "help";
	}
	if (strcmp(noun, "--version") == 0) {
		noun = "version";
	}
	c->cmd = tree_find(noun, verb, &known);
	if (c->cmd != NULL && *verb != '\0') {
		used = 3;
	}
	if (c->cmd == NULL && known) {
		c->cmd = tree_find(noun, "", &known);
	}
	if (c->cmd == NULL && !known) {
		return unknown_word(noun);
	}
	if (c->cmd == NULL) {
		bool asked = *argc > 2 && (strcmp((*argv)[2], "--help") == 0 || strcmp((*argv)[2], "-h") == 0);

		if (*verb != '\0') {
			say("spotctl %s: no such action '%s'", noun, verb);
		}
		tree_help(asked ? stdout : stderr, noun);
		return asked ? -1 : CTL_USAGE;
	}
	*argc -= MIN(used, *argc);
	*argv += used;
	return CTL_OK;
}

int main(int argc, char **argv)
{
	struct ctl c = {.arena = arena_new(0), .format = FORMAT_TABLE};
	int rc;

	signal(SIGINT, interrupted);
	signal(SIGPIPE, SIG_DFL);
	c.tty = isatty(STDOUT_FILENO) == 1;
	c.color = c.tty && getenv("NO_COLOR") == NULL && strcmp(getenv("TERM") != NULL ? getenv("TERM") : "dumb", "dumb") != 0;
	rc = find_command(&c, &argc, &argv);
	if (rc == CTL_OK) {
		rc = opts_parse(&c, argc, argv);
	}
	if (rc == CTL_OK && opt_flag(&c, "help")) {
		cmd_help(stdout, c.cmd);
	} else if (rc == CTL_OK) {
		rc = settings_load(&c);
		rc = rc != CTL_OK ? rc : c.cmd->run(&c);
	}
	conn_close(&c);
	arena_free(c.arena);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		say("spotctl: cannot write the output");
		rc = rc > 0 ? rc : CTL_FAILED;
	}
	return rc < 0 ? CTL_OK : rc;
}
