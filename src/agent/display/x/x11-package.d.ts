declare module 'x11' {
  const x11: { createClient(options: object, callback: (error: Error | null, display: never) => void): void; eventMask: Record<string, number> }
  export default x11
}
