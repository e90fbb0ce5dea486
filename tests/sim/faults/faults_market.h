/* Faults of the market as a whole (no spot, silent or frozen price feeds), and ends that EC2
 * plans. */
#ifndef SIM_FAULTS_MARKET_H
#define SIM_FAULTS_MARKET_H

void faults_market_minute(void);
void faults_market_calm(void);

#endif
