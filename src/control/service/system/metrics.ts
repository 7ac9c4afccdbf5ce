// Figures for Prometheus.
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import type { Room } from '../../../base/disk.ts'
import { memoryNow } from '../../../base/memory.ts'
import type { ShelfMeter, ShelfState } from '../../sessions/browsers/fleet/shelf-state.ts'

export interface Metrics {
  shelf: ShelfMeter
  /** One finished HTTP request. */
  request(done: { id: string; method: string; status: number; ms: number }): void
  /** Adds a figure that is asked for each time. */
  show(name: string, help: string, value: () => number): void
  /** Adds a counter, and returns what raises it. */
  count(name: string, help: string): (by: number) => void
  /** The figures as text; `browsers` by state: all of the database, and those of this replica. */
  render(browsers: Record<'all' | 'own', Record<string, number>>, shelf: ShelfState, sockets: number, room: Room): Promise<string>
}

export function makeMetrics(): Metrics {
  const registers = [new Registry()]
  collectDefaultMetrics({ register: registers[0], prefix: 'cob_' })
  const duration = new Histogram({
    name: 'cob_http_request_duration_seconds',
    help: 'Time to answer',
    labelNames: ['route', 'status'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers,
  })
  const failures = new Counter({ name: 'cob_http_failures_total', help: 'Answers of 500 and above', labelNames: ['route'], registers })
  const browsers = new Gauge({ name: 'cob_browsers', help: 'Browsers by state that this replica watches', labelNames: ['state'], registers })
  const all = new Gauge({
    name: 'cob_all_browsers',
    help: 'Browsers by state in the whole database: each replica tells the same, so take the maximum and not the sum',
    labelNames: ['state'],
    registers,
  })
  const hits = new Counter({ name: 'cob_shelf_hits_total', help: 'Creates that found a warm browser', registers })
  const misses = new Counter({ name: 'cob_shelf_misses_total', help: 'Creates that waited for a boot', registers })
  const waits = new Histogram({
    name: 'cob_shelf_wait_seconds',
    help: 'Time until a create had its browser',
    buckets: [0.005, 0.01, 0.025, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60],
    registers,
  })
  const waiting = new Gauge({ name: 'cob_shelf_waiting', help: 'Creates that wait for a warm browser', registers })
  const target = new Gauge({
    name: 'cob_shelf_wanted',
    help: 'Warm browsers that demand and memory ask for, of all replicas together: take the maximum and not the sum',
    labelNames: ['kind'],
    registers,
  })
  const begun = new Counter({ name: 'cob_boots_total', help: 'Boots begun', labelNames: ['for'], registers })
  const failed = new Counter({ name: 'cob_boots_failed_total', help: 'Boots that failed', labelNames: ['for'], registers })
  const booting = new Gauge({ name: 'cob_boots_under_way', help: 'Boots under way', registers })
  const forWhom = (isAwaited: boolean) => ({ for: isAwaited ? 'caller' : 'shelf' })
  const sockets = new Gauge({ name: 'cob_websockets', help: 'Open WebSockets', registers })
  const diskFree = new Gauge({ name: 'cob_disk_free_bytes', help: 'Room on the disk of the data directory', registers })
  const diskFiles = new Gauge({ name: 'cob_disk_free_files', help: 'Files that may still be made on the disk of the data directory', registers })
  const diskFull = new Gauge({ name: 'cob_disk_full', help: '1 while nothing new is begun because the disk is full', registers })
  const memory = new Gauge({ name: 'cob_memory_available_bytes', help: 'Memory of the machine that programs can still take without swapping', registers })
  return {
    shelf: {
      served(wasReady, seconds) {
        ;(wasReady ? hits : misses).inc()
        waits.observe(seconds)
      },
      booting: (isAwaited) => begun.inc(forWhom(isAwaited)),
      bootFailed: (isAwaited) => failed.inc(forWhom(isAwaited)),
    },
    show(name, help, value) {
      void new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(value())
        },
      })
    },
    count(name, help) {
      const counter = new Counter({ name, help, registers })
      return (by) => counter.inc(by)
    },
    request({ id, status, ms }) {
      duration.observe({ route: id, status: `${Math.floor(status / 100)}xx` }, ms / 1000)
      if (status >= 500) failures.inc({ route: id })
    },
    render(byState, shelf, open, { freeBytes, freeInodes, problem }) {
      for (const [gauge, counts] of [
        [browsers, byState.own],
        [all, byState.all],
      ] as const) {
        gauge.reset()
        for (const [state, count] of Object.entries(counts)) gauge.set({ state }, count)
      }
      waiting.set(shelf.waiting)
      booting.set(shelf.booting)
      for (const [kind, count] of Object.entries(shelf.wanted)) target.set({ kind }, count)
      sockets.set(open)
      diskFree.set(freeBytes)
      if (freeInodes !== undefined) diskFiles.set(freeInodes)
      diskFull.set(problem === undefined ? 0 : 1)
      memory.set(memoryNow().freeBytes)
      return registers[0]!.metrics()
    },
  }
}
