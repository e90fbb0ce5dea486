/* Rules that must always hold, and rules that must hold once everything is calm. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "base/base.h"
#include "base/text/text.h"
#include "sim/store/rows.h"

void check_step(void); /* each minute */
bool check_settled(void); /* all jobs are over and all machines are gone */
void check_end(void);
void check_timeline(void); /* prints the events of the rows */
/* The rules that check_end looks at, and no more. progress: also of programs that were looked at
 * before. */
void check_rules_end(void);
void check_progress_again(void);
/* check_rules.c: rules that are .sql files, by their keys. Returns how many rows were looked at. */
int64_t check_rule(const char *key);
void check_doctor(void); /* those of spotctl doctor --consistency that ask for no grace */
/* Runs a rule that finds jobs (number, state). A leader that never stands still mends each within a
 * few passes. since: when each job was first found, by its number; 0 = not found. */
#define CHECK_JOBS_MAX 128
void check_soon(const char *key, int64_t since[static CHECK_JOBS_MAX]);
/* The same for a job that was found otherwise; open: all that are found this time. */
void check_job_soon(const char *rule, size_t job, const char *state,
    bool open[static CHECK_JOBS_MAX], int64_t since[static CHECK_JOBS_MAX]);
void check_soon_end(const bool open[static CHECK_JOBS_MAX], int64_t since[static CHECK_JOBS_MAX]);

/* check_jobs.c */
void check_programs(void);
void check_progress(void);
void check_checkpoints(void);
/* all: every committed checkpoint; else those from which jobs would resume now */
void check_restorable(bool all);
bool check_disposes(void); /* whether this seed waits until that is done */
void check_disposed(void);
void check_losses(void);
void check_healthy(void);
void check_cancels(void);
void check_results(void);

/* check_budget.c */
void check_budget(void);
void check_budget_seen(void);

/* check_work.c */
void check_work(void);
void check_work_end(void);
void check_work_seen(void); /* states that must be reached sometimes */

/* check_fleets.c */
void check_fleets(void);
void check_fleets_end(void);
void check_fleets_seen(void);

/* check_money.c */
void check_ledger(void);
void check_ledger_end(void);
void check_money_end(void);

/* check_told.c */
void check_told(void);
void check_absent(void); /* instances that a list lacked */
void check_told_end(void);

/* check_acts.c */
void check_sent(const char *from, const char *url, struct str body); /* a message leaves */
void check_ended(void);
void check_boots(void);

/* Breaks "a fleet gives back no machine with work". */
#define BREAK_RELEASED \
	"INSERT INTO event (at_us, entity, entity_id, node_id, was, now, event, why, actor) " \
	"SELECT created_us + 1, 'node', 'n' || node_id, node_id, 'READY', 'TERMINATING', " \
	"'RELEASE', 'idle, and more than the fleet wants', 'engine' FROM attempt " \
	"WHERE coalesce(ended_us > created_us + 1, true) LIMIT 1"
/* breaks.c: breaks each rule on purpose, at the end of a seed, and counts which rules noticed. */
void breaks_all(void);
struct rule_break {
	const char *rule, *sql;
	void (*act)(void); /* NULL: the rows are looked at */
};
extern const struct rule_break breaks_fleets[];
extern const size_t breaks_fleets_n;

#endif
