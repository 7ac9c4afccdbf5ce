// How the dashboard is built, and served while somebody works on it; and how the pages that stand alone are built (web/README.md).
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig, type InlineConfig, type Plugin } from 'vite'
import { contracts } from '../src/control/modules.ts'

const SERVICE = process.env.COB_URL ?? 'http://127.0.0.1:2627'

/**
 * The module `virtual:routes`: method, path and needed right of every call, by its id. It is made from the contracts, so the dashboard says no path
 * again, and has no zod in its bundle.
 */
const routes: Plugin = {
  name: 'cob-routes',
  resolveId: (id) => (id === 'virtual:routes' ? '\0virtual:routes' : undefined),
  load(id) {
    if (id !== '\0virtual:routes') return undefined
    const table = Object.fromEntries(contracts.flatMap((group) => Object.values(group).map((route) => [route.id, [route.method, route.path, route.right]])))
    return `export const ROUTES = ${JSON.stringify(table)}`
  },
}

/** React Aria's own texts in English only, as ours are: those of thirty other languages would be a sixth of the first load. */
const english: Plugin = {
  name: 'cob-english',
  enforce: 'pre',
  load(id) {
    const found = /[/\\](react-aria|react-aria-components|react-stately)[/\\].*[/\\]intl[/\\](?:.*[/\\])?([a-z]{2}-[A-Z]{2})(\.m?js)$/.exec(id)
    return found && found[2] !== 'en-US' ? `export { default } from './en-US${found[3]}'` : undefined
  },
}

/** A style element that Vite adds while somebody works on the dashboard has no nonce of the service. */
const noNonce: Plugin = {
  name: 'cob-no-nonce',
  apply: 'serve',
  transformIndexHtml: (html) => html.replace('<meta property="csp-nonce" nonce="__COB_NONCE__" />', ''),
}

/** Of both. */
const BUILD = {
  emptyOutDir: false,
  // Data URLs would need a wider policy than files.
  assetsInlineLimit: 0,
  modulePreload: { polyfill: false },
}

const STANDALONE = join(import.meta.dirname, 'src/standalone')

/**
 * The pages that stand alone: small files of their own, for any phone that is still in use. Preact takes the place of React, whose 190 KB would be most of what
 * they load.
 */
export const standalone: InlineConfig = {
  configFile: false,
  root: STANDALONE,
  base: '/dashboard/',
  publicDir: false,
  plugins: [routes],
  resolve: {
    alias: {
      'react/jsx-runtime': 'preact/jsx-runtime',
      'react-dom/client': 'preact/compat/client',
      react: 'preact/compat',
      // The package exports its main module only.
      'novnc-core': join(import.meta.dirname, '../node_modules/@novnc/novnc/core'),
    },
  },
  build: { ...BUILD, target: 'es2022', rolldownOptions: { input: globSync(join(STANDALONE, '*.html')) } },
}

export default defineConfig({
  root: import.meta.dirname,
  base: '/dashboard/',
  plugins: [routes, english, noNonce],
  build: {
    ...BUILD,
    target: 'es2023',
    manifest: 'manifest.json',
    // test/dashboard-size.test.ts has the limit.
    chunkSizeWarningLimit: 2_000,
    rolldownOptions: {
      // Libraries mark files for servers that render React; there is none here.
      onLog: (level, log, print) => log.code !== 'MODULE_LEVEL_DIRECTIVE' && print(level, log),
    },
  },
  server: {
    // What is not a file of the dashboard is answered by a running service.
    proxy: { '^/(?!dashboard)': { target: SERVICE, ws: true, changeOrigin: false } },
  },
})
