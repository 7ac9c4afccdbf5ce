declare module 'x11/lib/keysyms.js' {
  const keysyms: Record<string, { code: number; description: string | null }>
  export default keysyms
}
