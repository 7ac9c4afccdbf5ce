// Metrics for Prometheus: those of the service itself, and those that groups add.
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import type { Room } from '../../../base/disk.ts'
import { memoryNow } from '../../../base/memory.ts'

export interface Metrics {
  /** For groups that register metrics with their own labels. */
  registry: Registry
  /** One finished HTTP request. */
  request(done: { id: string; method: string; status: number; ms: number }): void
  /** Adds a gauge whose value is read at each scrape; undefined when it is not known. */
  show(name: string, help: string, value: () => number | undefined): void
  /** Adds a counter, and returns the function that raises it. */
  count(name: string, help: string): (by: number) => void
  /** The metrics as text. */
  render(): Promise<string>
}

export function makeMetrics(): Metrics {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry, prefix: 'cob_' })
  const duration = new Histogram({
    name: 'cob_http_request_duration_seconds',
    help: 'Time to answer',
    labelNames: ['route', 'status'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers,
  })
  const failures = new Counter({ name: 'cob_http_failures_total', help: 'Answers of 500 and above', labelNames: ['route'], registers })
  return {
    registry,
    show(name, help, value) {
      void new Gauge({
        name,
        help,
        registers,
        collect() {
          const now = value()
          if (now !== undefined) this.set(now)
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
    render: () => registry.metrics(),
  }
}

/** Metrics of the machine on which the service depends. */
export function showMachine(metrics: Metrics, room: () => Room, openSockets: () => number): void {
  metrics.show('cob_websockets', 'Open WebSockets', openSockets)
  metrics.show('cob_disk_free_bytes', 'Room on the disk of the data directory', () => room().freeBytes)
  metrics.show('cob_disk_free_files', 'Files that may still be made on the disk of the data directory', () => room().freeInodes)
  metrics.show('cob_disk_full', '1 while nothing new is begun because the disk is full', () => (room().problem === undefined ? 0 : 1))
  metrics.show('cob_memory_available_bytes', 'Memory of the machine that programs can still take without swapping', () => memoryNow().freeBytes)
}
