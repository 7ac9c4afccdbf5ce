// The settings of a bucket for objects.
import { ConfigError, needed, origin } from './setting.ts'

/** The bucket for objects, if they are not stored as files. */
export type S3Settings = NonNullable<ReturnType<typeof s3Settings>>

const S3_PREFIX = /^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/

// All settings or none: with a partly named bucket, objects would go to the data directory, where nobody expects them.
export function s3Settings(env: NodeJS.ProcessEnv) {
  const bucket = env.COB_S3_BUCKET
  const others = ['COB_S3_ENDPOINT', 'COB_S3_REGION', 'COB_S3_ACCESS_KEY_ID', 'COB_S3_SECRET_ACCESS_KEY', 'COB_S3_PREFIX'].filter((name) => env[name])
  if (!bucket) {
    if (others.length > 0) throw new ConfigError('COB_S3_BUCKET', `must be set too, because ${others[0]} is set`)
    return undefined
  }
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$/.test(bucket)) throw new ConfigError('COB_S3_BUCKET', 'must be the name of a bucket, without a scheme or a path')
  const endpoint = origin(env, 'COB_S3_ENDPOINT')
  const prefix = env.COB_S3_PREFIX || 'cob'
  if (!S3_PREFIX.test(prefix)) throw new ConfigError('COB_S3_PREFIX', 'must be letters, digits, ".", "_" and "-", in segments joined by "/"')
  return {
    bucket,
    // When undefined, Amazon's in `region`.
    endpoint,
    region: env.COB_S3_REGION || endpoint === undefined ? needed(env, 'COB_S3_REGION', 'COB_S3_BUCKET is set without COB_S3_ENDPOINT') : 'us-east-1',
    accessKeyId: needed(env, 'COB_S3_ACCESS_KEY_ID', 'COB_S3_BUCKET is set'),
    secretAccessKey: needed(env, 'COB_S3_SECRET_ACCESS_KEY', 'COB_S3_BUCKET is set'),
    // All keys begin with it and a `/`.
    prefix,
  }
}
