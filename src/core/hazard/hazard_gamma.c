/* Quantiles of the gamma distribution, fast. Small shapes use a table of exact ones: shape * ln of
 * the quantile over log2 of the shape, where it is smooth. Larger shapes use Wilson and Hilferty
 * (1931), with a relative error below 0.0002. */
#include "base/base.h"
#include "core/hazard/hazard_priv.h"

#include <math.h>

#define LOG2_FIRST (-7.0) /* of the first entry; each next is a quarter more */
#define WIDEST 16.0
#define Z_90 1.6448536269514722

static const double lower[] = {
	-3.000192,
	-3.001024,
	-3.002010,
	-3.003175,
	-3.004552,
	-3.006176,
	-3.008090,
	-3.010340,
	-3.012979,
	-3.016067,
	-3.019669,
	-3.023853,
	-3.028689,
	-3.034247,
	-3.040587,
	-3.047752,
	-3.055755,
	-3.064559,
	-3.074049,
	-3.083995,
	-3.094003,
	-3.103440,
	-3.111332,
	-3.116209,
	-3.115859,
	-3.106987,
	-3.084765,
	-3.042323,
	-2.970195,
	-2.855734,
	-2.682446,
	-2.429199,
	-2.069239,
	-1.568949,
	-0.886290,
	0.031135,
	1.248479,
	2.846608,
	4.925719,
	7.609772,
	11.051908,
	15.441057,
	21.010003,
	28.045208,
	36.898789,
};
static const double upper[] = {
	-0.055747,
	-0.056564,
	-0.057511,
	-0.058587,
	-0.059779,
	-0.061061,
	-0.062384,
	-0.063679,
	-0.064847,
	-0.065760,
	-0.066251,
	-0.066103,
	-0.065038,
	-0.062704,
	-0.058648,
	-0.052295,
	-0.042914,
	-0.029574,
	-0.011094,
	0.014023,
	0.047679,
	0.092278,
	0.150862,
	0.227272,
	0.326353,
	0.454200,
	0.618477,
	0.828795,
	1.097189,
	1.438699,
	1.872091,
	2.420739,
	3.113704,
	3.987073,
	5.085581,
	6.464615,
	8.192658,
	10.354279,
	13.053791,
	16.419714,
	20.610226,
	25.819813,
	32.287363,
	40.306048,
	50.235334,
};

static double wilson_hilferty(double shape, double z)
{
	double c = 1.0 / (9.0 * shape);
	double t = 1.0 - c + z * sqrt(c);

	return shape * t * t * t;
}

/* Interpolates by a parabola through the nearest three entries. */
static double table_interpolate(const double *t, double at)
{
	int i = (int)(at + 0.5);
	double d;

	i = MIN(MAX(i, 1), (int)ARRAY_LEN(lower) - 2);
	d = at - i;
	return t[i] + d * (t[i + 1] - t[i - 1]) / 2 + d * d * (t[i + 1] - 2 * t[i] + t[i - 1]) / 2;
}

void gamma_interval(double shape, double *ret_lo, double *ret_hi)
{
	double at;

	if (shape >= WIDEST) {
		*ret_lo = wilson_hilferty(shape, -Z_90);
		*ret_hi = wilson_hilferty(shape, Z_90);
		return;
	}
	at = fmax((log2(shape) - LOG2_FIRST) * 4, 0);
	*ret_lo = exp(table_interpolate(lower, at) / shape);
	*ret_hi = exp(table_interpolate(upper, at) / shape);
}
