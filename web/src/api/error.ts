// What the service answers when it refuses a call.

/** An answer that refuses, or no answer. */
export class ApiError extends Error {
  override name = 'ApiError'
  /** 0: the service could not be reached. */
  readonly status: number
  readonly code: string
  /** What the log of the service has it under. */
  readonly requestId: string | undefined
  constructor(status: number, code: string, message: string, requestId?: string) {
    super(message)
    this.status = status
    this.code = code
    this.requestId = requestId
  }
}

/** What an answer says that refuses; `text` is its body. */
export function refusalOf(status: number, text: string, id: string | null): ApiError {
  const requestId = id ?? undefined
  try {
    const { code, message } = JSON.parse(text.slice(0, 20_000)) as { code: string; message: string }
    return new ApiError(status, String(code), String(message), requestId)
  } catch {
    return new ApiError(status, 'unknown', `The answer was ${status}.`, requestId)
  }
}
