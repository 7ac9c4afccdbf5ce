// The filesystem calls over real HTTP: real files behind two servers, as an agent is behind the control plane.
import type { AddressInfo } from 'node:net'
import { filesystem } from '../../src/agent/fs/contract.ts'
import { openFiles } from '../../src/agent/fs/files.ts'
import { filesystemHandlers } from '../../src/agent/fs/handlers.ts'
import { silentLog } from '../../src/base/log.ts'
import { mountForward } from '../../src/http/forward.ts'
import { mount, type MountContext } from '../../src/http/mount.ts'
import type { Principal } from '../../src/http/route.ts'
import { makeServer } from '../../src/http/server.ts'
import { tempDir } from './trees.ts'

export interface ServedFiles extends AsyncDisposable {
  url: string
  port: number
  /** The folder for uploads whose destination is not known yet. */
  home: string
}

const CALLER: Principal = { by: { kind: 'session', lease: 0, id: 'any' }, project: 'any' }

export async function serveFiles(): Promise<ServedFiles> {
  await using scope = new AsyncDisposableStack()
  const home = scope.use(tempDir())
  const files = scope.use(openFiles(home.path, silentLog))
  const serve = async (offer: (context: MountContext) => void): Promise<number> => {
    const context = makeServer({ log: silentLog, authenticate: async () => CALLER })
    offer(context)
    await context.app.listen({ port: 0, host: '127.0.0.1' })
    scope.defer(() => context.app.close())
    return (context.app.server.address() as AddressInfo).port
  }
  const target = {
    endpoint: { host: '127.0.0.1', port: await serve((context) => mount(context, filesystem, filesystemHandlers(files))) },
    release() {},
  }
  const port = await serve((context) =>
    mountForward(
      context,
      filesystem,
      async () => target,
      (path) => path,
    ),
  )
  const owner = scope.move()
  return { url: `http://127.0.0.1:${port}`, port, home: home.path, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}
