// What vite.config.ts makes of the contracts: method, path and needed right of each call, by its id.
declare module 'virtual:routes' {
  export const ROUTES: Record<string, readonly [method: string, path: string, right: 'view' | 'use' | 'own']>
}
