// The paths of the live view's WebSockets in the agent: one for viewers that control and one for viewers that only watch.

export const LIVE_SOCKETS = { control: '/live/control', watch: '/live/watch' } as const
