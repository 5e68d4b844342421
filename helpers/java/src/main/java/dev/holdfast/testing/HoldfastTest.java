package dev.holdfast.testing;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Starts a server for the tests of a class. Its objects and faults are reset after each test.
 *
 * <p>Parameters of the tests can be the server ({@link Holdfast}), fabric8's {@code KubernetesClient}, the official {@code
 * ApiClient}, and a {@link TestNamespace}.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@ExtendWith(HoldfastExtension.class)
public @interface HoldfastTest {
    /** Path of the binary. The default is the value of HOLDFAST, or the first one in PATH. */
    String binary() default "";

    /** Controllers, as in the flag --controllers. */
    String[] controllers() default "*";

    /** Further flags of the server. */
    String[] args() default {};
}
