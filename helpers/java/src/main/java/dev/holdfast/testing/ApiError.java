package dev.holdfast.testing;

/** Answer with an error status. */
public final class ApiError extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final int code;

    ApiError(int code, String message) {
        super(code + ": " + message);
        this.code = code;
    }

    /** Returns the HTTP status. */
    public int code() {
        return code;
    }
}
