#!/usr/bin/env python3
"""Works out the score of random cases on its own, from the output of score_cases, and compares every term.

    test_score.py SCORE_CASES [N [SEED]]

The equations are those of src/core/README.md, written down a second time: a difference is a mistake on one of the sides."""
import json
import math
import subprocess
import sys

Z95 = 1.645


def gamma_at(mean, var, z):
    if mean <= 0 or var <= 0:
        return max(mean, 0.0)
    shape = mean ** 2 / var
    t = 1 - 1 / (9 * shape) + z * math.sqrt(1 / (9 * shape))
    return mean * t ** 3 if t > 0 else 0.0


def half_away(x):
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


def speed(c):
    """Own step rates weigh their hours against half an hour for the table."""
    job, gpu = c['job'], c['offer']['gpu']
    table = c['table'][gpu]
    per = [(r['gpu'], r['steps'] / (r['milli'] / 1000), r['hours']) for r in job['rates']]
    ref = [p for p in per if p[0] == job['ref'] or p[0].startswith(job['ref'] + '-')]
    if ref:
        rate = sum(p[1] for p in ref) / sum(p[2] for p in ref)
    elif per:
        rate = sum(p[1] / c['table'][p[0]] for p in per) / sum(p[2] for p in per)
    here = [p for p in per if p[0] == gpu]
    hours = sum(p[2] for p in here)
    if not here:
        return table, 0.0
    return (table * 0.5 + sum(p[1] for p in here) / rate) / (0.5 + hours), hours


def interval(h, saves, d, known):
    d = max(d, 0.1)
    mtbf = 3600 / max(h * (1 - saves), 1e-9)
    i = math.sqrt(2 * d * mtbf)
    if known:
        i = i * (1 + math.sqrt(d / (2 * mtbf)) / 3 + d / (18 * mtbf)) - d if d < 2 * mtbf else mtbf
    return min(max(i, 30), 3600)


def hours(c, t):
    """Fills t with the hours; False: it would hardly ever finish."""
    job, pol, h = c['job'], c['policy'], c['offer']['hazard']
    r = job['restart_us'] / 3.6e9 if job['restart_us'] else pol['restart_s'] / 3600
    w, starts = t['work_h'], 0.0 if job['runs_there'] else 1.0
    t.update(restart_per_h=r, starts=starts, start_h=starts * r, overhead=0.0, overhead_h=0.0, interval_s=0.0, save_s=0.0)
    if not job['checkpoints']:
        x = h * w
        if x > 10:
            return False
        n = math.expm1(x)
        lost = n / h - w if h > 0 else 0.0
        t.update(notice_saves=0.0, interruptions=n, lost_h=lost, lost_per_h=lost / n if n > 0 else 0.0, restart_h=n * r,
                 paid_hours=starts * r + w + lost + n * r)
        return True
    d = t['save_s'] = job['save_us'] / 1e6 if job['save_us'] else float(pol['save_s'])
    t['notice_s'] = 120.0 if c['offer']['provider'] == 'aws' else 30.0
    saves = t['notice_saves'] = pol['notice_saves'] if d <= t['notice_s'] else 0.0
    t['slack_h'] = 0.0
    if job['interval_off']:
        lost = (1 - saves) * min(1 / max(h * saves, 1e-9), w / 2)
    else:
        i = float(job['interval_s'] or interval(h, saves, d, job['save_us'] > 0))
        if not job['interval_s'] and job['deadline_us'] and c['offer']['market'] in ('spot', 'interruptible'):
            # The clock of the cases stands at a microsecond.
            t['slack_h'] = (job['deadline_us'] - 1) / 3.6e9 - starts * r - w - r
            i = min(i, max(t['slack_h'] * 900, 10 * d, 30))
        t['interval_s'] = i
        t['overhead'] = d / i
        lost = (1 - saves) * i / 2 / 3600
    useful = 1 - h * (lost + r)
    if useful <= 0.05:
        return False
    t['overhead_h'] = w * t['overhead']
    paid = (starts * r + w + t['overhead_h']) / useful
    t.update(lost_per_h=lost, paid_hours=paid, interruptions=h * paid, lost_h=h * paid * lost, restart_h=h * paid * r)
    return True


def average_variance(x):
    """2x - 3 + 4 e^-x - e^-2x over x squared, term by term where that cancels out."""
    if x > 0.1:
        return (2 * x - 3 + 4 * math.exp(-x) - math.exp(-2 * x)) / x ** 2
    return math.fsum((4 * (-x) ** k - (-2 * x) ** k) / math.factorial(k) for k in range(3, 15)) / x ** 2


def price(c, t):
    o, pol = c['offer'], c['policy']
    now = o['price_micros']
    t.update(price_now_micros=now, price_mean_micros=now, price_cover=0.0, price_stay=1.0, price_move_micros=0, price_sd_micros=0.0)
    if o['market'] == 'spot' and o['price_cover'] > 0:
        mean = o['price_mean'] * 1e6
        t.update(price_mean_micros=half_away(mean), price_cover=o['price_cover'],
                 price_sd_micros=1e6 * math.sqrt(o['price_var'] * average_variance(t['hours'] / 168)))
        if pol['price_reversion_s']:
            x = t['hours'] * 3600 / pol['price_reversion_s']
            t['price_stay'] = (1 - math.exp(-x)) / x if x > 1e-4 else 1 - x / 2 + x * x / 6
            t['price_move_micros'] = half_away((mean - now) * (1 - t['price_stay']) * o['price_cover'])
    penalty = now * {'stale': pol['stale_pm'], 'frozen': pol['frozen_pm']}.get(o['state'], 0) // 1000
    t.update(penalty_micros=penalty, price_micros=now + t['price_move_micros'] + penalty)


def egress(c, t):
    job, gb = c['job'], c['per_gb']
    size = job['size_bytes']
    t.update({k: 0 for k in ('restore_per_micros', 'upload_per_micros', 'data_per_micros')}, restores=0.0, saves=0.0, data_reads=0.0)
    if size > 0 or job['data_bytes'] > 0:
        n = t['interruptions']
        if job['checkpoints']:
            t['restore_per_micros'] = half_away(size / 1e9 * gb['restore'])
            t['upload_per_micros'] = half_away(size / 1e9 * gb['upload'])
            t['restores'] = (t['starts'] if job['at'] else 0) + n
            t['saves'] = n * t['notice_saves'] + (t['work_h'] * 3600 / t['interval_s'] if t['interval_s'] else 0)
        t['data_per_micros'] = half_away(job['data_bytes'] / 1e9 * gb['data'])
        t['data_reads'] = t['starts'] + n
    for what, count in (('restore', 'restores'), ('upload', 'saves'), ('data', 'data_reads')):
        t[what + '_micros'] = half_away(t[what + '_per_micros'] * t[count])


def variance(c, t, wait):
    """Of the hours beside the work: number of reclaims, cost of each, doubt in the hazard."""
    h, n, r = c['offer']['hazard'], t['interruptions'], t['restart_per_h'] + wait
    cost = t['lost_per_h'] + r
    if t['interval_s'] > 0 or t['notice_saves'] > 0:
        most = t['interval_s'] / 3600 if t['interval_s'] > 0 else 2 * t['lost_per_h']
        second = (1 - t['notice_saves']) * (most ** 2 / 3 + most * r) + r ** 2
        u = 1 - h * cost
        return n * second / u ** 2 + (t['hazard_sd'] * t['paid_hours'] * cost / max(u, 0.05)) ** 2
    if h <= 0:
        return 0.0
    w, x = t['work_h'], h * t['work_h']
    each = max(1 / h ** 2 - (w ** 2 * math.exp(x) / n ** 2 if n > 0 else 0), 0)
    slope = w * math.exp(x) * (1 / h + r) - n / h ** 2
    return n * each + n * (n + 1) * cost ** 2 + (t['hazard_sd'] * slope) ** 2


def spread(c, t):
    o, q = c['offer'], max(t['odds'], 0.05)
    t['hazard_sd'] = (o['hazard_hi'] - o['hazard_lo']) / (2 * Z95)
    base = t['start_h'] + t['work_h'] + t['overhead_h']
    v = variance(c, t, 0)
    t['paid_sd_h'] = math.sqrt(v)
    calm = math.exp(-o['hazard'] * base)
    for name, p, z in (('paid_p50_h', 0.5, 0), ('paid_p95_h', 0.95, Z95)):
        t[name] = base if calm >= p else base + gamma_at(t['paid_hours'] - base, v, z)
    v = variance(c, t, t['wait_per_h']) + (t['starts'] + t['interruptions']) * (1 - q) / q ** 2 * (c['policy']['refused_s'] / 3600) ** 2
    t.update(hours_sd_h=math.sqrt(v), hours_p50=base + gamma_at(t['hours'] - base, v, 0),
             hours_p95=base + gamma_at(t['hours'] - base, v, Z95))
    t['cost_p50_micros'] = half_away(t['price_micros'] * t['paid_p50_h']) + t['egress_micros']
    t['cost_p95_micros'] = t['total_micros'] + half_away(math.hypot(
        t['price_micros'] * (t['paid_p95_h'] - t['paid_hours']), Z95 * t['price_sd_micros'] * t['paid_hours']))


def score(c):
    """All terms; None: refused."""
    job, pol, o = c['job'], c['policy'], c['offer']
    t = {'work_ref_h': (job['work_left_s'] or pol['default_work_s']) / 3600, 'odds': o['odds']}
    per_gpu, t['measured_h'] = speed(c)
    t['throughput'] = per_gpu * o['milli'] / job['ref_milli']
    t['throughput_table'] = c['table'][o['gpu']] * o['milli'] / job['ref_milli']
    t['work_h'] = t['work_ref_h'] / t['throughput']
    if not hours(c, t):
        return None
    t['wait_per_h'] = pol['refused_s'] / 3600 * (1 - o['odds']) / max(o['odds'], 0.05)
    t['wait_h'] = (t['starts'] + t['interruptions']) * t['wait_per_h']
    t['hours'] = t['paid_hours'] + t['wait_h']
    price(c, t)
    egress(c, t)
    t['compute_micros'] = half_away(t['price_micros'] * t['paid_hours'])
    t['egress_micros'] = t['restore_micros'] + t['upload_micros'] + t['data_micros']
    t['total_micros'] = t['compute_micros'] + t['egress_micros']
    spread(c, t)
    return t


def sums(t):
    """Adds up the printed terms, as a person would."""
    assert t['price_micros'] == t['price_now_micros'] + t['price_move_micros'] + t['penalty_micros'], t
    assert t['egress_micros'] == t['restore_micros'] + t['upload_micros'] + t['data_micros'], t
    assert t['total_micros'] == t['compute_micros'] + t['egress_micros'], t
    assert abs(t['price_micros'] * t['paid_hours'] - t['compute_micros']) <= 0.5 + 1e-12 * t['compute_micros'], t
    parts = t['start_h'] + t['work_h'] + t['overhead_h'] + t['lost_h'] + t['restart_h']
    assert abs(parts - t['paid_hours']) <= 1e-9 * max(parts, 1), t
    assert t['hours_p50'] <= t['hours_p95'] and t['cost_p50_micros'] <= t['cost_p95_micros'], t


def main(program, n=3000, seed=1):
    out = subprocess.run([program, str(n), str(seed)], check=True, stdout=subprocess.PIPE, text=True).stdout
    scored = refused = 0
    for line in out.splitlines():
        c = json.loads(line)
        want = score(c)
        if want is None or 'terms' not in c:
            assert want is None and 'interruptions' in c.get('refused', ''), (want, line)
            refused += 1
            continue
        got = c['terms']
        sums(got)
        assert c['total_micros'] == got['total_micros']
        for name, value in want.items():
            # The truncated exponential of starting over cancels many digits where hardly anything is lost.
            near = 1e-6 if name in ('lost_h', 'lost_per_h') or '_sd_h' in name or '_p' in name else 1e-9
            room = max(1.001, 1e-9 * abs(value)) if isinstance(value, int) else near * max(abs(value), 1)
            assert abs(got[name] - value) <= room + (near * abs(value) if 'cost' in name else 0), (name, got[name], value, line)
        scored += 1
    assert scored >= n * 0.8 and refused > 0, (scored, refused)
    print(f'{scored} scores equal their terms worked out again, {refused} rightly refused')


if __name__ == '__main__':
    main(sys.argv[1], *map(int, sys.argv[2:]))
