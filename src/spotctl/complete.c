/* Completion scripts, made from the command tree. Words, options and the values of -o; files
 * otherwise. */
#include "base/base.h"
#include "spotctl/ctl.h"

static bool first_of_noun(const struct ctl_cmd *k)
{
	return k->help != NULL && (k == ctl_commands || strcmp(k[-1].noun, k->noun) != 0);
}

static void print_nouns(void)
{
	for (const struct ctl_cmd *k = ctl_commands; k->noun != NULL; k++) {
		if (first_of_noun(k)) {
			printf("%s ", k->noun);
		}
	}
}

static void print_options(const struct ctl_opt *o, const struct ctl_cmd *only)
{
	for (; o != NULL && o->name != NULL; o++) {
		if (only == NULL || opt_applies(only, o)) {
			printf("--%s ", o->name);
		}
	}
}

static void bash_verbs(void)
{
	for (const struct ctl_cmd *k = ctl_commands; k->noun != NULL; k++) {
		if (!first_of_noun(k)) {
			continue;
		}
		printf("\t\t%s) words=\"", k->noun);
		for (const struct ctl_cmd *v = k; v->noun != NULL && strcmp(v->noun, k->noun) == 0;
		     v++) {
			printf("%s%s", *v->verb != '\0' ? " " : "", v->verb);
		}
		printf("\" ;;\n");
	}
}

static void bash_options(void)
{
	for (const struct ctl_cmd *k = ctl_commands; k->noun != NULL; k++) {
		if (k->help == NULL) {
			continue;
		}
		printf("\t\t'%s%s%s') words=\"", k->noun, *k->verb != '\0' ? " " : "", k->verb);
		print_options(k->opts, NULL);
		print_options(common_opts, k);
		printf("\" ;;\n");
	}
}

static void complete_bash(void)
{
	printf("_spotctl() {\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= "
	       "command\n"
	       "\tcase $prev in\n"
	       "\t-o|--output) COMPREPLY=($(compgen -W 'table wide json csv name' -- \"$cur\")); "
	       "return ;;\n"
	       "\tesac\n"
	       "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n\t\twords=\"");
	print_nouns();
	printf("\"\n\telif [ \"${cur:0:1}\" = - ]; then\n"
	       "\t\tcommand=${COMP_WORDS[1]}\n"
	       "\t\t[ \"$COMP_CWORD\" -lt 3 ] || [ \"${COMP_WORDS[2]:0:1}\" = - ] || "
	       "command=\"$command ${COMP_WORDS[2]}\"\n"
	       "\t\tcase $command in\n");
	bash_options();
	printf("\t\tesac\n\telif [ \"$COMP_CWORD\" -eq 2 ]; then\n\t\tcase ${COMP_WORDS[1]} in\n");
	bash_verbs();
	printf("\t\tcompletion) words=\"bash zsh fish\" ;;\n\t\tesac\n\tfi\n"
	       "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	       "\t[ -n \"$words\" ] || COMPREPLY=($(compgen -f -- \"$cur\"))\n}\n"
	       "complete -F _spotctl spotctl\n");
}

/* In single quotes, which fish ends at a quote that has no backslash. */
static void fish_quoted(const char *s)
{
	putchar('\'');
	for (; *s != '\0'; s++) {
		if (*s == '\'' || *s == '\\') {
			putchar('\\');
		}
		putchar(*s);
	}
	putchar('\'');
}

static void fish_options(const struct ctl_cmd *k, const struct ctl_opt *o, bool common)
{
	for (; o != NULL && o->name != NULL; o++) {
		if (common && !opt_applies(k, o)) {
			continue;
		}
		printf("complete -c spotctl -n '__fish_seen_subcommand_from %s%s%s' -l %s", k->noun,
		    *k->verb != '\0' ? "; and __fish_seen_subcommand_from " : "", k->verb, o->name);
		if (o->letter != 0) {
			printf(" -s %c", o->letter);
		}
		if (strcmp(o->name, "output") == 0) {
			printf(" -x -a 'table wide json csv name'");
		} else if (o->arg != NULL) {
			printf(" -r");
		}
		printf(" -d ");
		fish_quoted(o->help);
		putchar('\n');
	}
}

static void complete_fish(void)
{
	for (const struct ctl_cmd *k = ctl_commands; k->noun != NULL; k++) {
		if (k->help == NULL) {
			continue;
		}
		if (first_of_noun(k)) {
			printf("complete -c spotctl -n __fish_use_subcommand -f -a %s -d ",
			    k->noun);
			fish_quoted(*k->verb == '\0' ? k->help : "");
			putchar('\n');
		}
		if (*k->verb != '\0') {
			printf("complete -c spotctl -n '__fish_seen_subcommand_from %s' -f -a %s "
			       "-d ",
			    k->noun, k->verb);
			fish_quoted(k->help);
			putchar('\n');
		}
		fish_options(k, k->opts, false);
		fish_options(k, common_opts, true);
	}
}

int cmd_completion(struct ctl *c)
{
	if (strcmp(c->args[0], "bash") == 0) {
		complete_bash();
	} else if (strcmp(c->args[0], "zsh") == 0) {
		printf("autoload -U +X bashcompinit && bashcompinit\n");
		complete_bash();
	} else if (strcmp(c->args[0], "fish") == 0) {
		complete_fish();
	} else {
		say("spotctl completion: the shell must be bash, zsh or fish");
		return CTL_USAGE;
	}
	return CTL_OK;
}
