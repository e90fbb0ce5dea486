/* Faults of the market as a whole (no spot, silent or frozen price feeds), and ends that EC2
 * plans. */
#ifndef SIM_FAULTS_MARKET_H
#define SIM_FAULTS_MARKET_H

void faults_market_minute(void);
void faults_market_calm(void);
/* faults_swings.c: spot and its prices go and come (PROFILE_MOVING_FLEETS) */
void swings_minute(void);
void swings_calm(void);

#endif
