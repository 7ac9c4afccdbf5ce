declare module 'selenium-webdriver/bidi/index.js' {
  export default class BIDI {
    constructor(url: string)
    waitForConnection(): Promise<void>
    // oxlint-disable-next-line typescript/no-explicit-any
    send(command: { method: string; params: object }): Promise<any>
    close(): void
  }
}
