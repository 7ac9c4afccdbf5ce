// esbuild with several users in one process.
import { expect, test } from 'vitest'
import { bundling } from './bundler.ts'

test('a user that is done does not stop the work of another', async () => {
  const [go, began] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const slow = bundling(async ({ build }) => {
    const plugin = {
      name: 'slow',
      setup: (of: import('esbuild').PluginBuild) =>
        of.onLoad({ filter: /.*/, namespace: 'file' }, async () => {
          began.resolve()
          await go.promise
          return { contents: 'export const made = 1' }
        }),
    }
    return build({ entryPoints: [import.meta.filename], bundle: true, write: false, logLevel: 'silent', plugins: [plugin] })
  })
  await began.promise
  const quick = await bundling(({ transform }) => transform('let a: number = 1', { loader: 'ts' }))
  expect(quick.code).toContain('let a = 1')
  go.resolve()
  expect((await slow).outputFiles[0]!.text).toContain('made')
})
