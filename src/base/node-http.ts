// Loads Node's HTTP without `import`: importing node:http evaluates its lazy exports (WebSocket and others), and these load a second HTTP client.
// That would cost 40 ms at every start of an agent.
export const { Agent, STATUS_CODES, createServer, request } = process.getBuiltinModule('node:http')
