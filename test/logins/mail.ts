// An SMTP server that stores a test's mail, for codes that applications send.
import { createServer, type Socket } from 'node:net'
import { serveSockets } from '../support/upstreams.ts'

export interface MailSink extends AsyncDisposable {
  port: number
  /** Complete messages, oldest first. */
  messages: string[]
}

export async function startMailSink(): Promise<MailSink> {
  const messages: string[] = []
  const talk = (socket: Socket): void => {
    let text = ''
    let isMessage = false
    socket.write('220 mail.test\r\n')
    socket.on('data', (chunk) => {
      text += chunk.toString()
      for (;;) {
        const mark = isMessage ? '\r\n.\r\n' : '\r\n'
        const at = text.indexOf(mark)
        if (at < 0) return
        const piece = text.slice(0, at)
        text = text.slice(at + mark.length)
        if (isMessage) {
          messages.push(piece)
          isMessage = false
          socket.write('250 kept\r\n')
        } else if (/^data/i.test(piece)) {
          isMessage = true
          socket.write('354 go on\r\n')
        } else if (/^quit/i.test(piece)) socket.end('221 bye\r\n')
        else socket.write('250 mail.test\r\n')
      }
    })
  }
  const server = createServer(talk)
  const served = await serveSockets(server)
  return { port: served.port, messages, [Symbol.asyncDispose]: () => served[Symbol.asyncDispose]() }
}
