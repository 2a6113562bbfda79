//! How a port is declared: once, and everything that follows from it comes of that.

/// Declares a port: its trait, the trait of its [layers](super::layer), and that [`Unasked`](super::Unasked) has it.
///
/// A method is written once, as `async fn name(&self, ..) -> Result<..>;` under what it promises. Implementations write
/// `async fn` as well; the trait itself asks for futures that are `Send`, as the steps are spawned.
/// - A port whose reads come in pages has `type Cursor;` before its methods.
/// - Methods that an implementation may leave out follow in a block `provided { .. }`, with their bodies. They have
///   these bodies in layers, too: a layer that changes the call that they lead to has changed them with it.
macro_rules! port {
    (
        $(#[$about:meta])*
        pub trait $Port:ident {
            $(type $Cursor:ident;)?
            $(
                $(#[$says:meta])*
                async fn $call:ident(&self $(, $arg:ident: $of:ty)* $(,)?) -> $answer:ty;
            )+
        }
        $(provided {
            $(
                $(#[$may_say:meta])*
                async fn $may:ident(&$this:ident $(, $with:ident: $kind:ty)* $(,)?) -> $gives:ty $body:block
            )+
        })?
    ) => {
        $(#[$about])*
        pub trait $Port: Sync {
            $(
                /// A position in an index.
                type $Cursor: Clone + std::fmt::Debug + Send + Sync;
            )?
            $(
                $(#[$says])*
                fn $call(&self $(, $arg: $of)*) -> impl Future<Output = $answer> + Send;
            )+
            $($(
                $(#[$may_say])*
                fn $may(&$this $(, $with: $kind)*) -> impl Future<Output = $gives> + Send {
                    async move $body
                }
            )+)?
        }

        pub(super) mod layer {
            use super::*;
            use crate::ports::around::Layer;

            $(#[$about])*
            ///
            /// The port of a layer: each call is handed on, unless the layer says what becomes of it.
            pub trait $Port: Layer<Inner: super::$Port$(<$Cursor = <Self as $Port>::$Cursor>)?> {
                $(
                    /// A position in an index: that of the port inside.
                    type $Cursor: Clone + std::fmt::Debug + Send + Sync;
                )?
                $(
                    $(#[$says])*
                    fn $call(&self $(, $arg: $of)*) -> impl Future<Output = $answer> + Send {
                        self.around(stringify!($call), super::$Port::$call(self.inner() $(, $arg)*))
                    }
                )+
                $($(
                    $(#[$may_say])*
                    fn $may(&$this $(, $with: $kind)*) -> impl Future<Output = $gives> + Send {
                        async move $body
                    }
                )+)?
            }
        }

        #[diagnostic::do_not_recommend]
        impl<L: layer::$Port> $Port for L {
            $(type $Cursor = <L as layer::$Port>::$Cursor;)?
            $(
                fn $call(&self $(, $arg: $of)*) -> impl Future<Output = $answer> + Send {
                    layer::$Port::$call(self $(, $arg)*)
                }
            )+
            $($(
                fn $may(&$this $(, $with: $kind)*) -> impl Future<Output = $gives> + Send {
                    layer::$Port::$may($this $(, $with)*)
                }
            )+)?
        }

        impl $Port for crate::ports::Unasked {
            $(type $Cursor = ();)?
            $(
                async fn $call(&self $(, _: $of)*) -> $answer {
                    Err(Self::was_asked(stringify!($call)))
                }
            )+
        }
    };
}

pub(super) use port;
