// Metrics of browsers for Prometheus: how many are in which state, and what the warm pool does.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { PoolsState, WarmPoolMeter } from './fleet/settings.ts'

/** Counts what the warm pool does. */
export function meterWarmPool(registry: Registry): WarmPoolMeter {
  const registers = [registry]
  const hits = new Counter({ name: 'cob_warm_pool_hits_total', help: 'Creates that found a warm browser', registers })
  const misses = new Counter({ name: 'cob_warm_pool_misses_total', help: 'Creates that waited for a boot', registers })
  const waits = new Histogram({
    name: 'cob_warm_pool_wait_seconds',
    help: 'Time until a create had its browser',
    buckets: [0.005, 0.01, 0.025, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60],
    registers,
  })
  const begun = new Counter({ name: 'cob_boots_total', help: 'Boots begun', labelNames: ['for'], registers })
  const failed = new Counter({ name: 'cob_boots_failed_total', help: 'Boots that failed', labelNames: ['for'], registers })
  const forWhom = (isAwaited: boolean) => ({ for: isAwaited ? 'caller' : 'warm_pool' })
  return {
    served(wasReady, seconds) {
      ;(wasReady ? hits : misses).inc()
      waits.observe(seconds)
    },
    booting: (isAwaited) => begun.inc(forWhom(isAwaited)),
    bootFailed: (isAwaited) => failed.inc(forWhom(isAwaited)),
  }
}

/** Metrics of the present number of browsers. `byState` counts all browsers of the database, and those of this replica. */
export function showBrowsers(registry: Registry, byState: () => Promise<Record<'all' | 'own', Record<string, number>>>, warmPool: () => PoolsState): void {
  const registers = [registry]
  /** One query serves both metrics, which are collected at the same time. */
  let asking: ReturnType<typeof byState> | undefined
  const counts = () => (asking ??= byState().finally(() => (asking = undefined)))
  const showStates = (name: string, help: string, of: 'all' | 'own') =>
    void new Gauge({
      name,
      help,
      labelNames: ['state'],
      registers,
      async collect() {
        const now = (await counts())[of]
        this.reset()
        for (const [state, count] of Object.entries(now)) this.set({ state }, count)
      },
    })
  showStates('cob_browsers', 'Browsers by state that this replica watches', 'own')
  showStates('cob_all_browsers', 'Browsers by state in the whole database: each replica tells the same, so take the maximum and not the sum', 'all')
  void new Gauge({
    name: 'cob_warm_pool_wanted',
    help: 'Warm browsers that demand and memory ask for, of all replicas together: take the maximum and not the sum',
    labelNames: ['kind'],
    registers,
    collect() {
      for (const [kind, count] of Object.entries(warmPool().wanted)) this.set({ kind }, count)
    },
  })
  const show = (name: string, help: string, value: () => number) =>
    void new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(value())
      },
    })
  show('cob_warm_pool_waiting', 'Creates that wait for a warm browser', () => warmPool().waiting)
  show('cob_boots_under_way', 'Boots under way', () => warmPool().booting)
}
