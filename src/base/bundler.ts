// esbuild, which works in a child process that all of its users in this process share.

let users = 0

/** Does `work` with esbuild. Its child process ends with the last of its users; it would keep running otherwise. */
export async function bundling<T>(work: (esbuild: typeof import('esbuild')) => Promise<T>): Promise<T> {
  const esbuild = await import('esbuild')
  users++
  try {
    return await work(esbuild)
  } finally {
    if (--users === 0) await esbuild.stop()
  }
}
