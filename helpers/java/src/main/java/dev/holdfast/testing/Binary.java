package dev.holdfast.testing;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** Finds the binary. */
final class Binary {
    /** Environment variable with the path of the binary. */
    static final String VARIABLE = "HOLDFAST";

    private Binary() {}

    /** Returns the path of the binary: the explicit one, the value of HOLDFAST, or the first one in PATH. */
    static Path find(String explicit, Map<String, String> environment) {
        for (String path : new String[] {explicit, environment.get(VARIABLE)}) {
            if (path != null && !path.isEmpty()) {
                Path found = path.contains(File.separator) ? Path.of(path) : inPath(path, environment);
                if (found == null || !isExecutable(found)) {
                    throw new IllegalStateException(path + " is not an executable file");
                }
                return found;
            }
        }
        Path found = inPath("holdfast", environment);
        if (found == null) {
            throw new IllegalStateException(
                    "there is no holdfast: set " + VARIABLE + " to its path, or add its directory to PATH");
        }
        return found;
    }

    private static Path inPath(String name, Map<String, String> environment) {
        for (String folder : environment.getOrDefault("PATH", "").split(File.pathSeparator)) {
            Path path = Path.of(folder, name);
            if (!folder.isEmpty() && isExecutable(path)) {
                return path;
            }
        }
        return null;
    }

    private static boolean isExecutable(Path path) {
        return Files.isRegularFile(path) && Files.isExecutable(path);
    }
}
