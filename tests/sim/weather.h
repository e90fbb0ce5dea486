/* What happens to clouds as a whole, and to machines that stay. */
#ifndef SIM_WEATHER_H
#define SIM_WEATHER_H

void weather_minute(void);
void weather_calm(void);

#endif
