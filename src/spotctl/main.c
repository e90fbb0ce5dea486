/* spotctl: the command line of the broker. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

#include <signal.h>
#include <unistd.h>

static void on_interrupt(int signo)
{
	(void)signo;
	_exit(CTL_INTERRUPTED); /* nothing of ours needs undoing: the daemon holds all state */
}

static bool asks_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int unknown_noun(const char *word)
{
	const char *near = tree_suggest_noun(word);

	if (near != NULL) {
		say("spotctl: no command '%s'; did you mean '%s'?", word, near);
	} else {
		say("spotctl: no command '%s'; 'spotctl help' lists them", word);
	}
	return CTL_USAGE;
}

/* "job" alone, or with a verb that it does not have. Returns -1 when all is said. */
static int noun_only(const char *noun, const char *verb, bool asked)
{
	const char *near = *verb != '\0' ? tree_suggest_verb(noun, verb) : NULL;

	if (near != NULL) {
		say("spotctl %s: no action '%s'; did you mean '%s'?", noun, verb, near);
	} else if (*verb != '\0') {
		say("spotctl %s: no action '%s'", noun, verb);
	}
	tree_help(asked ? stdout : stderr, noun);
	return asked ? -1 : CTL_USAGE;
}

static int find_command(struct ctl *c, int *argc, char ***argv)
{
	const char *noun = *argc > 0 ? (*argv)[0] : "help";
	const char *verb = *argc > 1 && (*argv)[1][0] != '-' ? (*argv)[1] : "";
	bool known = false;
	int used = 1;

	if (asks_help(noun)) {
		noun = "help";
	}
	c->cmd = tree_find(noun, verb, &known);
	if (c->cmd != NULL && *verb != '\0') {
		used = 2;
	}
	if (c->cmd == NULL && known) {
		c->cmd = tree_find(noun, "", &known);
		if (c->cmd != NULL && c->cmd->args_max == 0 && tree_has_verbs(noun)) {
			c->cmd = NULL; /* it takes no word, so this was to be an action */
		}
	}
	if (c->cmd == NULL && !known) {
		return unknown_noun(noun);
	}
	if (c->cmd == NULL) {
		return noun_only(noun, verb, *argc > 1 && asks_help((*argv)[1]));
	}
	*argc -= MIN(used, *argc);
	*argv += used;
	return CTL_OK;
}

/* Once, or every watch_s seconds until interrupted; the daemon may restart under it. */
static int run_command(struct ctl *c)
{
	bool seen = false;

	if (c->watch_s == 0) {
		return c->cmd->run(c);
	}
	for (;;) {
		struct round r;
		int rc;

		round_begin(c, &r);
		if (c->tty) {
			printf("\033[H\033[2J");
		}
		rc = c->cmd->run(c);
		round_end(c, &r);
		if (fflush(stdout) != 0 || (rc != CTL_OK && !(seen && rc == CTL_UNREACHABLE))) {
			return rc;
		}
		seen = true;
		pause_ms((int)c->watch_s * 1000);
	}
}

static int command_line_run(struct ctl *c, int argc, char **argv)
{
	int rc, front;

	if (argc > 0 && strcmp(argv[0], "--version") == 0) {
		printf("spotctl %s\n", SPOT_VERSION);
		return CTL_OK;
	}
	front = opts_parse_front(c, argc, argv);
	if (front < 0) {
		return CTL_USAGE;
	}
	argc -= front;
	argv += front;
	rc = find_command(c, &argc, &argv);
	if (rc == CTL_OK) {
		rc = opts_parse(c, argc, argv);
	}
	if (rc != CTL_OK) {
		return rc;
	}
	if (opt_flag(c, "help")) {
		cmd_help(stdout, c->cmd);
		return CTL_OK;
	}
	if ((c->cmd->flags & CTL_OFFLINE) == 0) {
		rc = settings_load(c);
		rc = rc == CTL_OK ? refs_resolve(c) : rc;
	}
	return rc != CTL_OK ? rc : run_command(c);
}

int main(int argc, char **argv)
{
	const char *term = getenv("TERM");
	struct ctl c = { .arena = arena_new(0), .format = FORMAT_TABLE };
	int rc;

	signal(SIGINT, on_interrupt);
	/* 'spotctl ... | head' ends quietly, whatever our parent ignores */
	signal(SIGPIPE, SIG_DFL);
	c.tty = isatty(STDOUT_FILENO) == 1;
	c.color =
	    c.tty && str_empty(getenv("NO_COLOR")) && !str_empty(term) && strcmp(term, "dumb") != 0;
	rc = command_line_run(&c, argc - 1, argv + 1);
	conn_close(&c);
	docs_free(&c);
	arena_free(c.arena);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		say("spotctl: cannot write to standard output");
		rc = rc > 0 ? rc : CTL_FAILED;
	}
	return rc < 0 ? CTL_OK : rc;
}
