// The error of a call that the service refused or did not answer.

export class ApiError extends Error {
  override name = 'ApiError'
  /** 0 when the service could not be reached. */
  readonly status: number
  readonly code: string
  /** The id under which the service logged the request. */
  readonly requestId: string | undefined
  constructor(status: number, code: string, message: string, requestId?: string) {
    super(message)
    this.status = status
    this.code = code
    this.requestId = requestId
  }
}

/** Makes an error from a refusal; `text` is its body. */
export function refusalOf(status: number, text: string, id: string | null): ApiError {
  const requestId = id ?? undefined
  try {
    const { code, message } = JSON.parse(text.slice(0, 20_000)) as { code: string; message: string }
    return new ApiError(status, String(code), String(message), requestId)
  } catch {
    return new ApiError(status, 'unknown', `The answer was ${status}.`, requestId)
  }
}
