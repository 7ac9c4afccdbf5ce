import { Kernel, type KernelContext } from '@onkernel/sdk'

const app = new Kernel().app('echo')

app.action('echo', async (_ctx: KernelContext, payload?: unknown) => payload)
