// One session.
export default function SessionPage() {
  return null
}
