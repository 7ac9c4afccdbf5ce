// Measures a create that gets a warm browser, and its delete.
import { row, timed, type Row } from './figures.ts'
import type { Bench } from './bench.ts'
import type { Service } from './sessions.ts'

export async function measureWarm({ counts, rest }: Bench, service: Service): Promise<Row[]> {
  const creates: number[] = []
  const deletes: number[] = []
  for (let i = 0; i < counts.warm; i++) {
    await service.warm(1)
    await rest()
    await using scope = new AsyncDisposableStack()
    const { ms, result: session } = await timed(async () => scope.use(await service.create()))
    creates.push(ms)
    deletes.push((await timed(() => session.delete())).ms)
  }
  return [row('warm_create', 'warm create (POST answered)', 'ms', creates), row('delete', 'delete (DELETE answered)', 'ms', deletes)]
}
